import { styleText } from 'node:util';

/** Colours of terminals. */
export type Colour = 'bold' | 'red' | 'green' | 'yellow' | 'cyan';

/** Writes a text in a colour. */
export type Paint = (colour: Colour, text: string) => string;

/** Writes in colour, or in none. */
export function painter(isColoured: boolean): Paint {
  // The stream has been asked already; see wantsColour.
  return (colour, text) => (isColoured ? styleText(colour, text, { validateStream: false }) : text);
}
