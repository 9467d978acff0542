"""A process that puts messages as fast as it can: config, key, bytes, count. Ends with stdin."""

from __future__ import annotations

import sys
import time

import zenoh


def main() -> None:
    """Link, put, say that it is done, wait."""
    config, key, size, count = sys.argv[1:]
    session = zenoh.open(zenoh.Config.from_json5(config))
    while not session.info.links():
        time.sleep(0.01)
    time.sleep(0.2)
    message = b"x" * int(size)
    for _ in range(int(count)):
        session.put(key, message, congestion_control=zenoh.CongestionControl.BLOCK)
    sys.stdout.write("done\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
