"""vitrail pretrain"""

EXAMPLES = """Examples:

  vitrail pretrain --method mae --data photos/ --minutes 30
  vitrail pretrain --method mae --data digits --mask-ratio 0.6 --out runs/hidden
  vitrail pretrain --method dvae --data photos/ --out runs/codes
  vitrail pretrain --method beit --data photos/ --tokenizer runs/codes
  vitrail pretrain --method dino --data photos/ --minutes 30
  vitrail pretrain --method moco --data photos/ --minutes 30
  vitrail pretrain --method igpt --data digits
  vitrail pretrain --method igpt --data photos/ --image-size 16 --colors 128 --minutes 30
  vitrail pretrain --method igpt --data digits --masked --out runs/masked
"""
ABOUT = """Learn from images without their labels.

Everything is as with `vitrail train`, whose --task is the method here. Labels, where the data has them, are only used to see
what the model's layers know of them.
"""
