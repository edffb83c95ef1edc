"""A shop that takes each order once."""
