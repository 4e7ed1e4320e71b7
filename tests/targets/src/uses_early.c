// A program that calls what its library's constructor has called before.
int early_prepare(int amount);

int main(void) { return early_prepare(1) - 84; }
