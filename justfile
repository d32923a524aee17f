# The whole gate: exactly what CI runs.
check:
    ./test
