"""Pods and their devices, asked of the kubelet over its pod-resources socket."""
