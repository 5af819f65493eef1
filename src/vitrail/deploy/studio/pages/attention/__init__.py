"""What a model attends to in an image, and what else can be seen inside of it."""
