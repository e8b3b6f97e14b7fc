"""What kbgit offers over HTTP: Git itself, a JSON interface, and the server that hosts both.

    server          uvicorn, one process, one event loop
      edge          request id, access log, security headers, the last word on unexpected failures
        hosts       under which names the server may be addressed
        limits      how much one caller may ask for; how many searches run at once
          git_http  /git/…, through `cgi`; asynchronous, so that a clone of minutes holds no thread
          mcp_http  /mcp; mcp_protocol, the SDK behind it
          uploads   documents: the body spooled to disk, then on to the application
          bodies    everything else: the body read whole, bounded and unpacked, before a thread is spent on it
            wsgi    a pool of threads
              app   Flask: `api`, described by `openapi`, and `pages`

Beside them: `health` and `metrics` (together `operating`), `log`, and `kept_hooks`, the process that answers hooks. A surface
parses, calls the library and renders; it decides nothing.
"""
