"""An image in, the result of one action out: for tasks without a page of their own."""
