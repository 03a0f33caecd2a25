import { styleText } from 'node:util';

export type Colour = 'bold' | 'red' | 'green' | 'yellow' | 'cyan';

export type Paint = (colour: Colour, text: string) => string;

export function painter(isColoured: boolean): Paint {
  // The stream has been asked already; see wantsColour.
  return (colour, text) => (isColoured ? styleText(colour, text, { validateStream: false }) : text);
}
