// A program that does nothing: its options compile the headers that CMakeLists.txt names.

int main() { return 0; }
