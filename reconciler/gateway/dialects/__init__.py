"""The API surfaces of the gateway: they turn bodies into ``Generate``, and answers and errors into the form that
clients parse. All pure.

Read ``dialect`` first: it has the interface of a surface. ``table`` lists the surfaces.
"""
