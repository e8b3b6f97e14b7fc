"""What kbgit offers over HTTP: Git itself, a JSON interface, and the server that hosts both.

    server      uvicorn, one process, one event loop
      edge      request id, access log, security headers, the last word on unexpected failures
        git_http    /git/…, through `cgi`; asynchronous, so that a clone of minutes holds no thread
        bodies      everything else: the body read whole, bounded and unpacked, before a thread is spent on it
          app       Flask on a pool of threads: `api`, described by `openapi` and `schemas`

A surface parses, calls the library and renders; it decides nothing.
"""
