"""What the project raises; each exception owns the exit code that the command line gives it."""


class InputError(ValueError):
    """Bad input, said in one sentence that names what was given and what is allowed."""

    exit_code = 2


class NumericalError(ArithmeticError):
    """A computation that could not reach its stated accuracy; the message says what to try next."""

    exit_code = 1
