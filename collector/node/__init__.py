"""What the node is: its devices, their places, the processes on its
GPUs, what is out of service.
"""
