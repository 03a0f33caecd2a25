/** Why the list of a CNI config is not set. */
export class CniError extends Error {
  readonly remedy: string;
  /** Where in the text, in UTF-16 code units. */
  readonly offset: number;

  /** @param message one sentence, without position and without control characters */
  constructor(message: string, at: { readonly offset: number }, remedy: string) {
    super(message);
    this.offset = at.offset;
    this.remedy = remedy;
  }
}
