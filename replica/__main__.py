"""`python -m replica` is the command `replica`."""

from replica.cli.main import main

if __name__ == "__main__":
    main()
