"""The study of a best arm that moves: its cases, its trackers and its picture."""
