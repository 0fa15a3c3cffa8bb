"""Gates: what schedulers are told of this node, and the few things that are done to it on their controllers.

``health`` and ``verdict`` are made in the agent; everything else runs in the short process ``tocsin check`` and imports little.
"""
