"""What the worker can do: a function for each kind. It gets the task and gives a result that can be written as JSON."""
import os


class Fatal(Exception):
    """An error that no further attempt can mend. Every other exception is tried again."""


def count_words(task):
    """Counts words. It takes its time if it is told to, and stops half-way when somebody cancels it."""
    if not isinstance(task.input, dict) or not isinstance(task.input.get("text"), str):
        raise Fatal("text is missing")
    if task.cancelled.wait(task.input.get("seconds", 0)):
        raise Fatal("stopped, because it was cancelled")
    return {"words": len(task.input["text"].split()), "by": os.getpid()}


HANDLERS = {"count-words": count_words}
