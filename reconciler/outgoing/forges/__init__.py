"""Statuses of commits and comments on pull requests, at GitHub, GitLab, Forgejo and Gitea. Start with ``client.py``."""
