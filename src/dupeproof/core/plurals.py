"""Numbers in sentences for people."""


def counted(number: int, one: str, many: str = "") -> str:
    """`1 message`, `2,000 messages`; `many` where more than an s makes it so."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
