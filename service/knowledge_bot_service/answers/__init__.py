"""What a question is answered with: its conversation, passages that fit, and words for them."""
