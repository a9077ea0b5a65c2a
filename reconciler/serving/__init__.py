"""The HTTP server of gateway and console: addresses, TLS, connections with bounds, requests and answers, and no application.

Read ``listener`` first, then ``protocol``: one connection. ``limiter`` decides, purely, which connections may stay.
"""
