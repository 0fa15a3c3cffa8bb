"""Integrations: what schedulers learn of this node, and the few things that are done to
it on their controllers.

In the agent: ``verdict`` and ``health``, which are asked for, and ``outside``, which informs
Kubernetes and NVSentinel by itself. The rest runs in the short process ``tocsin check`` and imports
little.
"""
