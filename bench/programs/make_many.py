#!/usr/bin/env python3
"""Prints a C program of so many functions fn_0000, … and a main that sleeps; with an argument it calls each once."""
import sys

count = int(sys.argv[1])
print("#include <unistd.h>\nvolatile long sum;")
for i in range(count):
    print(f"__attribute__((noipa)) long fn_{i:04d}(long a) {{ sum += a + {i}; return sum; }}")
print("int main(int argc, char** argv) { (void)argv; if (argc < 2) for (;;) pause(); long r = 0;")
for i in range(count):
    print(f" r += fn_{i:04d}(r);")
print(" return r == 42; }")
