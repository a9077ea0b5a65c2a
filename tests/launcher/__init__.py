"""The process of a job's rank."""
