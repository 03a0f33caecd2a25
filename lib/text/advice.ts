/** What people should know, and what to do about it. */
export interface Advice {
  /** One sentence, without position and without control characters. */
  readonly message: string;
  readonly remedy: string;
}

export function adviceText({ message, remedy }: Advice): string {
  return `${message}; ${remedy}`;
}
