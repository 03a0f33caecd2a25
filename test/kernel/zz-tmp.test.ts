process.on('beforeExit', () => console.error('BEFORE EXIT', JSON.stringify((globalThis as any).at), process.getActiveResourcesInfo()));
