"""A handler and its guard, for threads or for tasks."""

from brokers_places import new_queue

from dupeproof import AsyncOnce, Once


def made(handle, is_async):
    if not is_async:
        return handle, Once("memory://", namespace=new_queue())

    async def handle_as_task(each):
        handle(each)

    return handle_as_task, AsyncOnce("memory://", namespace=new_queue())
