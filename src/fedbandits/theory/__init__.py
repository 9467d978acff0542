"""The theorems: the rates they tune, and the bounds they prove."""
