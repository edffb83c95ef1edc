# No twin: the async counterpart says the opposite.
"""Which of the two this is."""

IS_ASYNC = False
