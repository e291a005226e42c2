"""``python -m changegen``."""

from changegen.cli import main

if __name__ == "__main__":
    main()
