"""Sizes before anything is bought: what a rate, a window and a result take on each store, from measured bytes."""
