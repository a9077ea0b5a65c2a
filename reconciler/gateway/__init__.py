"""The gateway: one OpenAI-compatible endpoint in front of every running group.

It knows routes, not nodes. A request goes through these modules, in this order:

======================  ====================================================================
module                  what it does
======================  ====================================================================
``server``              the process: waits for the routes file, listens, stops in order
``listening``           the address
``protocol``            what is not even HTTP
``app``                 the endpoint's paths
``front``               what stands before all of them: request ids, foreign pages, unknown paths
``chat``                ``POST /v1/chat/completions``
``completions``         ``POST /v1/completions``
``endpoint``            what these two have in common
``model_list``          ``GET /v1/models``, and each of them
``health``              ``GET /health``, ``/ready`` and ``/metrics``
``metrics``             what is counted
``exchange``            HTTP: bodies in, JSON or an event stream out, the client that goes away
``openai_request``      PURE: a request's JSON to ``wire.generation.Generate``, or a ``Fault``
``openai_params``       PURE: what chat and legacy completions have in common
``openai_completions``  PURE: legacy completions, in and out
``openai_messages``     PURE: its conversation, in the shape of chat templates
``reading``             PURE: typed reading of JSON that a stranger wrote
``runs``                all choices of one request, waited for together
``dispatch``            one ``Run`` per choice: hold, choose, continue after a loss
``pool``                the links to backends, and who waits for one
``link``                one connection to one rank 0, shared by many requests
``routes``              the routes file
``openai_chat``         PURE: rank events to OpenAI's chunks or reply
``openai_shape``        PURE: errors, headings and usage of all of OpenAI's answers
``events``              what a link hears, and what a dialect sees of it
``faults``              what can be wrong, before any dialect gives it a shape
``timing``              every bound
======================  ====================================================================
"""
