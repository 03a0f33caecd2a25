/** A piece of software in the image that has an author and a licence of its own. */
export interface Component {
  readonly name: string;
  readonly version: string;
  /** Package URL; see github.com/package-url/purl-spec. */
  readonly purl: string;
  /** Name in the National Vulnerability Database, where it has one that a scanner cannot guess. */
  readonly cpe?: string;
  /** An SPDX expression; undefined where only texts tell the licence. */
  readonly licence: string | undefined;
  /** The texts of its licences, in the order of their files. */
  readonly licenceTexts: readonly string[];
  /** Digest of the package that it came in, as a lockfile has it (`sha512-` and base64). */
  readonly integrity?: string;
  /** What is built into it, versions by name. */
  readonly holds?: Readonly<Record<string, string>>;
}
