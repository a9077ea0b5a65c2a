"""The API surfaces of the gateway: bodies to ``Generate``, and answers and errors to what clients parse. All pure.

Read ``dialect`` first: it is what each surface provides. ``table`` lists the surfaces.
"""
