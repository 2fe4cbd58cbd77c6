"""`python -m phobos_sim`: the same as the command `phobos-sim`."""

from .cli import main

if __name__ == "__main__":
    main()
