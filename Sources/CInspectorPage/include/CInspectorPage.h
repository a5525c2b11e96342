// The files of the inspector's page, embedded when this is compiled.

#ifndef C_INSPECTOR_PAGE_H
#define C_INSPECTOR_PAGE_H

/// A file: its name, and its bytes, which are there for ever.
struct inspector_page_entry {
    const char *_Nonnull name;
    const unsigned char *_Nonnull bytes;
    long count;
};

/// How many files there are.
extern const int inspector_page_count;

/// One of them, from 0.
struct inspector_page_entry inspector_page_file(int index);

#endif
