import { inflateSync } from 'node:zlib';

/** What colours a picture has. */
export interface Picture {
  readonly width: number;
  readonly height: number;
  /** Pixels by colour, the most frequent first; a colour is `0xRRGGBB`. */
  readonly colours: readonly (readonly [colour: number, pixels: number])[];
}

const CHANNELS: Readonly<Record<number, number>> = { 2: 3, 6: 4 };

/** Reads a PNG of 8 bits for each channel, RGB with or without alpha, not interlaced: what browsers make. */
export function readPng(png: Buffer): Picture {
  const [width, height, depth] = [png.readUInt32BE(16), png.readUInt32BE(20), png.readUInt8(24)];
  const channels = CHANNELS[png.readUInt8(25)];
  if (depth !== 8 || channels === undefined || png.readUInt8(28) !== 0)
    throw new Error('no such PNG is read');
  const lines = inflateSync(Buffer.concat(dataChunks(png)));
  const length = width * channels;
  const colours = new Map<number, number>();
  let above = Buffer.alloc(length);
  for (let row = 0; row < height; row += 1) {
    const start = row * (length + 1);
    const line = lines.subarray(start + 1, start + 1 + length);
    unfilter(lines.readUInt8(start), line, above, channels);
    for (let at = 0; at < length; at += channels) {
      const colour = line.readUIntBE(at, 3);
      colours.set(colour, (colours.get(colour) ?? 0) + 1);
    }
    above = line;
  }
  return { width, height, colours: [...colours].sort(([, a], [, b]) => b - a) };
}

/** The contents of the chunks IDAT (PNG specification, section 5.3: length, type, data, checksum). */
function dataChunks(png: Buffer): readonly Buffer[] {
  const found: Buffer[] = [];
  for (let at = 8; at < png.length; ) {
    const length = png.readUInt32BE(at);
    const type = png.toString('latin1', at + 4, at + 8);
    if (type === 'IDAT') found.push(png.subarray(at + 8, at + 8 + length));
    at += length + 12;
  }
  return found;
}

/** Turns the bytes of a line into what they stand for, in place (PNG specification, section 9). */
function unfilter(filter: number, line: Buffer, above: Buffer, channels: number): void {
  for (let at = 0; at < line.length; at += 1) {
    const left = at < channels ? 0 : (line[at - channels] ?? 0);
    const corner = at < channels ? 0 : (above[at - channels] ?? 0);
    line[at] = (line[at] ?? 0) + predicted(filter, left, above[at] ?? 0, corner);
  }
}

function predicted(filter: number, left: number, up: number, corner: number): number {
  switch (filter) {
    case 0:
      return 0;
    case 1:
      return left;
    case 2:
      return up;
    case 3:
      return (left + up) >> 1;
    default: {
      // Whichever of the three is nearest to this sum, in this order.
      const sum = left + up - corner;
      const [byLeft, byUp, byCorner] = [Math.abs(sum - left), Math.abs(sum - up), Math.abs(sum - corner)];
      if (byLeft <= byUp && byLeft <= byCorner) return left;
      return byUp <= byCorner ? up : corner;
    }
  }
}
