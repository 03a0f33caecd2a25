/** Colours of terminals: ECMA-48, Select Graphic Rendition. Each ends with what it began. */
const CODES = { bold: [1, 22], red: [31, 39], green: [32, 39], yellow: [33, 39], cyan: [36, 39] } as const;

export type Colour = keyof typeof CODES;

/** Writes a text in a colour. */
export type Paint = (colour: Colour, text: string) => string;

/** Writes in colour, or in none. */
export function painter(isColoured: boolean): Paint {
  return (colour, text) => {
    const [on, off] = CODES[colour];
    return isColoured ? `\x1b[${on}m${text}\x1b[${off}m` : text;
  };
}
