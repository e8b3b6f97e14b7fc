"""Agents: the tools they call, in which profile, with which scope, and how answers are framed.

`contract` reads which tools there are, `calls` answers them (for MCP and for REST alike), `texts` and `framing` write the
answers down as text that cannot pass for instructions, `server` speaks the protocol, `stdio` carries it over pipes. HTTP
carries it in `kbgit.web.mcp_http`.
"""
