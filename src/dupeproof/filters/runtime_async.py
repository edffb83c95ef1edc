# No twin: the sync counterpart says the opposite.
"""Which of the two this is."""

IS_ASYNC = True
