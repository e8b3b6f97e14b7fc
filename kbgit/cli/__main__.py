"""`python -m kbgit.cli`: the same as `kbgit`."""

from kbgit.cli.program import main

if __name__ == "__main__":
    main()
