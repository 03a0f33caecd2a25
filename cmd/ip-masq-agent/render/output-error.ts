/** The output file cannot be read, written or removed; it is as it was. */
export class OutputError extends Error {}
