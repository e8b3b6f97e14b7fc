"""Documents (PDF and office files): queued on disk, extracted by workers with limits, stored as draft items."""
