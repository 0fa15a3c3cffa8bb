"""The version: spelt once, read by the build, the command line and ``tocsin_build_info``."""

VERSION = "0.1.0"
