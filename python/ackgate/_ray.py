"""Ray as an engine: each task is a remote function that is given the plan and gives back its rows.

The folder is the driver's alone; nodes share no file system. Ray runs a task again when its worker dies; a driver that
dies leaves what has come back, and the same call goes on from there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from . import _native
from .errors import RunError


def _task(plan: str, number: int, done: set[int], threads: int) -> str:
    from ackgate import _native as native

    return native.run_task(plan, number, done, threads)


def run(folder: _native.Folder, update: Callable[[int, int], None], threads: int, options: dict[str, Any]) -> None:
    """Runs what is missing of a folder's tasks."""
    try:
        import ray
    except ImportError as error:
        raise RunError('engine="ray" needs Ray: pip install ray') from error

    started = not ray.is_initialized()
    if started:
        # A Ray of our own, if no cluster's address is given (RAY_ADDRESS): nobody else is told of it.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        local: dict[str, Any] = {} if "RAY_ADDRESS" in os.environ else {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
        ray.init(log_to_driver=False, **local)
    try:
        plan = ray.put(folder.plan())
        remote = ray.remote(_task).options(num_cpus=threads, **{"max_retries": 3, **options})
        _, _, missing = folder.status()
        waiting = {
            remote.remote(plan, number, set(folder.done(number)), threads): number for number in missing
        }
        total = folder.tasks
        failed: list[str] = []
        update(total - len(waiting), total)
        while waiting:
            ready, _ = ray.wait(list(waiting), num_returns=1, timeout=0.5)
            for reference in ready:
                number = waiting.pop(reference)
                try:
                    folder.keep(number, ray.get(reference))
                except ray.exceptions.RayError as error:
                    failed.append(f"task {number}: {str(error).strip().splitlines()[-1]}")
            update(total - len(waiting), total)
        if failed:
            raise RunError(f"{len(failed)} of {total} tasks failed; the same call runs them again. " + "; ".join(failed))
    finally:
        if started:
            ray.shutdown()
