/** Of the machine that the test is on, as Debian and Docker name it; its image can be run here. */
export const OWN = process.arch === 'arm64' ? 'arm64' : 'amd64';

/** The other one that there is an image for; it can be built and looked at. */
export const OTHER = OWN === 'arm64' ? 'amd64' : 'arm64';
