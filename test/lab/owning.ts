/**
 * Makes something of parts that go when it is disposed of, the last one first, or at once if the making fails.
 *
 * @param make puts the parts on the stack
 */
export async function owning<Made extends object>(
  make: (stack: AsyncDisposableStack) => Promise<Made>,
): Promise<Made & { [Symbol.asyncDispose](): Promise<void> }> {
  await using stack = new AsyncDisposableStack();
  const made = await make(stack);
  const owned = stack.move();
  return { ...made, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
