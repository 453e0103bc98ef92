// The target whose precompiled header all tests use.
int main() { return 0; }
