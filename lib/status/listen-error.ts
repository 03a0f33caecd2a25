/** Nobody can be served at the address. */
export class ListenError extends Error {}
