"""The tokens that no text has: the same five numbers in every vocabulary."""

PAD, BEGIN, END, UNKNOWN, MASK = range(5)
SPECIAL_TOKENS = ("<pad>", "<begin>", "<end>", "<unknown>", "<mask>")  # by number
